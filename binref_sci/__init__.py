"""Stream arrays to flat files, return references, open them lazily."""
