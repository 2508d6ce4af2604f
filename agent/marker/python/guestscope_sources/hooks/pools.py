"""Pools of threads, and tasks."""

import functools

from .. import hops


def submit(original, site):
    @functools.wraps(original)
    def submit(self, fn, /, *args, **kwargs):
        try:
            return original(self, hops.hop(fn), *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return submit


def create_task(original, site):
    @functools.wraps(original)
    def create_task(self, coro, **kwargs):
        try:
            return original(self, hops.carry(coro), **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return create_task


def anyio(original, site):
    @functools.wraps(original)
    async def run_sync_in_worker_thread(cls, func, *args, **kwargs):
        try:
            return await original(cls, hops.hop(func), *args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next
            raise

    return run_sync_in_worker_thread
