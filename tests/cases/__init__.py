"""How a user would ask for each worked number: from what a case gives to a call, with no arithmetic of its own."""
