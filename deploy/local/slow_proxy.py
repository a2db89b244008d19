"""Forwards connections to a PostgreSQL server, each request after the seconds that a file says.

usage: slow_proxy.py DELAY_FILE POSTGRES_URL

Prints the URL with its own port.
"""

import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

delay = Path(sys.argv[1])
url = urlsplit(sys.argv[2])


async def copy(reader, writer, wait):
    try:
        while data := await reader.read(65_536):
            if wait:
                await asyncio.sleep(float(delay.read_text()))
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def serve(reader, writer):
    server = await asyncio.open_connection(url.hostname, url.port)
    await asyncio.gather(copy(reader, server[1], True), copy(server[0], writer, False))


async def main():
    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    print(sys.argv[2].replace(f":{url.port}/", f":{port}/"), flush=True)
    await proxy.serve_forever()


asyncio.run(main())
