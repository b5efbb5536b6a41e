"""Drawing attention: figures, a stand-alone HTML page, and heat maps in the terminal."""
