"""The templates of emitted code and of the HTML page; installed as `transformer.templates`."""
