"""One module per noun: which commands does the terminal offer for it?"""
