-- One row, until a crash: unlogged tables are empty after one. Marks do not wait for their WAL to be on disk, so that a crash
-- can lose tokens, which the sequence would issue again if it did not jump first.
CREATE UNLOGGED TABLE server_run (
    is_only bool PRIMARY KEY DEFAULT true CHECK (is_only)
);

INSERT INTO server_run DEFAULT VALUES;
