"""Components in containers: real ones, of podman."""
