"""What can be wrong with an installation: small pure checks over facts that somebody else has gathered."""
