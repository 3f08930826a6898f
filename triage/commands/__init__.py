"""The commands of `crux`, one file each; a file adds itself with `add_to(app)`."""
