"""``python -m tests.cluster.forward LISTEN TARGET``: pass connections on, as kube-proxy does for one Service."""

import asyncio
import contextlib
import sys


async def main(listen: str, target: str) -> None:
    """Listen until ended. Both are ``HOST:PORT``."""
    host, _, port = listen.rpartition(":")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to, _, at = target.rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(to, int(at))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))

    server = await asyncio.start_server(serve, host, int(port))
    async with server:
        await server.serve_forever()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
