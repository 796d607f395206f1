from tests.store.faults.test_processes import *
from tests.store.faults.contents import rows
async def test_dl(postgres_url: str) -> None:
    import time
    t=time.time()
    await test_four_processes_that_do_everything_at_once_are_all_served(postgres_url)
    print("SECONDS", time.time()-t, await rows(postgres_url,"SELECT deadlocks, xact_commit FROM pg_stat_database WHERE datname=current_database()"))
