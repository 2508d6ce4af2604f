"""Calls the marker library as no wrapper would: names too long, not UTF-8 or unreadable; ends without a
start."""

import ctypes
import os

library = ctypes.CDLL(os.environ["GUESTSCOPE_LIBRARY"])
library.guestscope_request.restype = ctypes.c_uint64
library.guestscope_request.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_uint64]
library.guestscope_end.argtypes = [ctypes.c_uint64]

NAMES = [
    b"long " * 2048,
    b"broken \xff\xfe\x80 bytes",
    b"zero \x00 inside",
    b"\x1b[31mred\x1b[0m\r\n\xc2\x9b",
    "größer".encode(),
    b"",
]

library.guestscope_end(0)
library.guestscope_end(0x0123_4567_89AB_CDEF)
for number, name in enumerate(NAMES, 1):
    token = library.guestscope_request(name, len(name), number, 0)
    library.guestscope_end(token)
    library.guestscope_end(token)
