-- Which runs of scheduled jobs there have been. A run is known by its job and the time at which it was due, not by when
-- it began, so clocks that differ and processes that restart cannot repeat it. A lock prevents that two run at a time,
-- and this that one runs twice.
--
-- Records are deleted when they are old. The highest due time among the deleted ones stays with the job for ever, so
-- what is older counts as run.

CREATE TABLE pglock.jobs (
    name pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    key bigint NOT NULL,
    pruned timestamp with time zone,
    CONSTRAINT jobs_pkey PRIMARY KEY (name),
    CONSTRAINT jobs_key_is_of_name CHECK (key OPERATOR(pg_catalog.=) pglock.key(name)),
    CONSTRAINT jobs_name_fits_index CHECK (pg_catalog.octet_length(name) OPERATOR(pg_catalog.<=) 1024)
);

REVOKE ALL ON TABLE pglock.jobs FROM PUBLIC;

COMMENT ON TABLE pglock.jobs IS 'The scheduled jobs that have run';
COMMENT ON COLUMN pglock.jobs.name IS 'The name of the job, which is the name of its lock';
COMMENT ON COLUMN pglock.jobs.key IS 'pglock.key(name), the number of its lock';
COMMENT ON COLUMN pglock.jobs.pruned IS 'The highest due time of a deleted record. What is not newer counts as run';
COMMENT ON CONSTRAINT jobs_pkey ON pglock.jobs IS 'A job is known by its name';
COMMENT ON CONSTRAINT jobs_key_is_of_name ON pglock.jobs IS 'No name is recorded for a number that is not its own';
COMMENT ON CONSTRAINT jobs_name_fits_index ON pglock.jobs IS 'Keeps rows well below the size limit of an index row';

CREATE TABLE pglock.runs (
    job pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    due timestamp with time zone NOT NULL,
    started timestamp with time zone NOT NULL,
    finished timestamp with time zone,
    done boolean NOT NULL,
    attempts integer NOT NULL,
    CONSTRAINT runs_pkey PRIMARY KEY (job, due),
    CONSTRAINT runs_job_fkey FOREIGN KEY (job) REFERENCES pglock.jobs (name) ON DELETE CASCADE
);

REVOKE ALL ON TABLE pglock.runs FROM PUBLIC;

COMMENT ON TABLE pglock.runs IS 'The runs of scheduled jobs, a row for each due time';
COMMENT ON COLUMN pglock.runs.job IS 'The name of the job';
COMMENT ON COLUMN pglock.runs.due IS 'When the run was due, which is what it is known by';
COMMENT ON COLUMN pglock.runs.started IS 'When the last attempt began, by the clock of the server';
COMMENT ON COLUMN pglock.runs.finished IS 'When it succeeded. NULL while it runs and after a failure';
COMMENT ON COLUMN pglock.runs.done IS 'Whether the run counts, so that it is not repeated';
COMMENT ON COLUMN pglock.runs.attempts IS 'How often it has begun';
COMMENT ON CONSTRAINT runs_pkey ON pglock.runs IS 'A run is known by its job and the time at which it was due';
COMMENT ON CONSTRAINT runs_job_fkey ON pglock.runs IS 'Who deletes a job deletes its runs';

-- Looks at a run, or records a step of it:
--
--   look     nothing is written
--   attempt  it begins, and will be repeated unless it is recorded as done
--   start    it begins, and is not repeated whatever becomes of it
--   done     it has succeeded, and is not repeated
--   finish   it has succeeded, after start
--
-- A run that is done already, and one that is not due yet by the clock of the server, is left alone. Who records holds
-- the row of the job until the transaction ends, so that records and the deletion of old ones are in one order. Each
-- statement here has a snapshot of its own, which is taken after that.

CREATE FUNCTION pglock.tick(
    job pg_catalog.text,
    due timestamp with time zone,
    step pg_catalog.text DEFAULT 'look',
    keep interval DEFAULT NULL,
    newest integer DEFAULT 0,
    OUT at timestamp with time zone,
    OUT done boolean,
    OUT pruned timestamp with time zone,
    OUT dues timestamp with time zone[]
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    old timestamp with time zone;
BEGIN
    IF tick.step IN ('attempt', 'start', 'done', 'finish') THEN
        INSERT INTO pglock.jobs AS j (name, key) VALUES (tick.job, pglock.key(tick.job)) ON CONFLICT DO NOTHING;
        SELECT j.pruned INTO tick.pruned FROM pglock.jobs AS j WHERE j.name = tick.job FOR UPDATE;
    ELSIF tick.step = 'look' THEN
        SELECT j.pruned INTO tick.pruned FROM pglock.jobs AS j WHERE j.name = tick.job;
    ELSE
        RAISE invalid_parameter_value USING MESSAGE = format('pglock.tick has no step %L', tick.step);
    END IF;
    tick.at := clock_timestamp();
    SELECT r.done INTO tick.done FROM pglock.runs AS r WHERE r.job = tick.job AND r.due = tick.due;
    tick.done := coalesce(tick.done, false) OR coalesce(tick.due <= tick.pruned, false);
    IF tick.newest > 0 THEN
        tick.dues := ARRAY(SELECT r.due FROM pglock.runs AS r
                           WHERE r.job = tick.job AND r.due < tick.due AND r.done
                           ORDER BY r.due DESC LIMIT tick.newest);
    END IF;
    IF tick.step = 'look' OR tick.due > tick.at THEN
        RETURN;
    ELSIF tick.step = 'finish' THEN
        UPDATE pglock.runs AS r SET finished = tick.at WHERE r.job = tick.job AND r.due = tick.due;
        RETURN;
    ELSIF tick.done THEN
        RETURN;
    END IF;
    INSERT INTO pglock.runs AS r (job, due, started, finished, done, attempts)
    VALUES (tick.job, tick.due, tick.at, CASE WHEN tick.step = 'done' THEN tick.at END, tick.step <> 'attempt', 1)
    ON CONFLICT ON CONSTRAINT runs_pkey DO UPDATE SET
        started = CASE WHEN tick.step = 'done' THEN r.started ELSE excluded.started END,
        finished = excluded.finished,
        done = excluded.done,
        attempts = r.attempts + CASE WHEN tick.step = 'done' THEN 0 ELSE 1 END;
    IF tick.keep IS NOT NULL THEN
        WITH deleted AS (
            DELETE FROM pglock.runs AS r
            WHERE r.job = tick.job AND r.due < tick.at - tick.keep AND r.due < tick.due
            RETURNING r.due
        )
        SELECT max(d.due) INTO old FROM deleted AS d;
        UPDATE pglock.jobs AS j SET pruned = greatest(j.pruned, old) WHERE j.name = tick.job AND old IS NOT NULL;
    END IF;
END
$$;

REVOKE ALL ON FUNCTION
    pglock.tick(pg_catalog.text, timestamp with time zone, pg_catalog.text, interval, integer) FROM PUBLIC;

COMMENT ON FUNCTION pglock.tick(pg_catalog.text, timestamp with time zone, pg_catalog.text, interval, integer) IS
    'Looks at the run of a job that is due at a time, or records a step of it: attempt, start, done or finish. '
    'Returns the time, whether the run had been done, the highest due time of a deleted record, and the newest '
    'due times before it';

UPDATE pglock.schema_migrations SET version = 8, dirty = false;
