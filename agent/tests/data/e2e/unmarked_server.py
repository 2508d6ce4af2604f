"""Listens on a port of 127.0.0.1 for some seconds, and writes it to the file E2E_BOOK. With `marked` it marks
a request too; with `nvtx` it maps a file that is called as NVTX's library is; with `works` it calls a
function that may be marked; with `daemon` a child serves, and what was started ends.

What it is asked it answers as `http.server` does.
"""

import http.server
import mmap
import os
import shutil
import sys
import threading
import time

if "daemon" in sys.argv and os.fork():
    time.sleep(1)
    os._exit(0)
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("E2E_PORT", "0"))), http.server.BaseHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(os.environ["E2E_BOOK"], "w") as file:
    print(server.server_port, file=file, flush=True)
if "marked" in sys.argv:
    import guestscope

    with guestscope.request("classify", 1):
        pass
if "works" in sys.argv:
    shutil.which("sh")
if "nvtx" in sys.argv:
    with open("libnvToolsExt.so.1", "w+b") as file:
        file.write(bytes(4096))
        file.flush()
        mapped = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)
time.sleep(4)
server.shutdown()
