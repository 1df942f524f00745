"""What is known of each library, as data: one TOML file a library."""
