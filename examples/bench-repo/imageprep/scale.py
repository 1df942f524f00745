"""Scales images to the range from 0 to 1."""

from array import array


def scale(image, width):
    """Every row of the image divided by the image's largest value."""
    largest = max(image)
    result = array("d")
    for start in range(0, len(image), width):
        row = image[start : start + width]
        result.extend(value / largest for value in row)
    return result


def schedule(gpu, images, size):
    """How the copies and kernels of a batch would be issued: one after the other."""
    for _ in range(images):
        gpu.copy("HtoD", size, "Pageable", wait=True)
        gpu.launch("scale", gpu.hardware.traffic_ns(2 * size))
        gpu.copy("DtoH", size, "Pageable", wait=True)
