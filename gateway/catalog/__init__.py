"""The catalog: YAML that users write, checked, compiled and looked up."""
