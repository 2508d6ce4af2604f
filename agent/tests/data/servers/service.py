"""The application on uvicorn, as long as the test wants it: `service.py KIND NOTE`.

It writes its port into the file NOTE, and ends when there is a file NOTE.stop.
"""

import os
import socket
import sys
import threading
import time

os.environ["SERVICE_KIND"], os.environ["SERVICE_NOTE"] = sys.argv[1:3]
import uvicorn  # noqa: E402
from app import app  # noqa: E402


def until_stopped():
    while not os.path.exists(sys.argv[2] + ".stop"):
        time.sleep(0.1)
    server.should_exit = True


listener = socket.create_server(("127.0.0.1", 0))
server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
threading.Thread(target=until_stopped, daemon=True).start()
with open(sys.argv[2] + ".new", "w") as file:
    file.write(str(listener.getsockname()[1]))
os.rename(sys.argv[2] + ".new", sys.argv[2])
server.run(sockets=[listener])
