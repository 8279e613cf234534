"""Scripts for another interpreter, not modules of this one."""

collect_ignore = ["echo_api.py", "their_client.py", "their_gradients.py"]
