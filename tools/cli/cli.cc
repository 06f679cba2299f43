// Placeholder so that the library has a source before the first flag is defined.
