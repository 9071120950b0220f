-- Short forms of the row functions for one key (space 1, number 77) and holders 1 to 4, and an oracle: PostgreSQL's own
-- advisory lock 1 is taken by who believes that it has the lock, from the commit of the grant to the begin of the drop.
create or replace function u(h int) returns uuid language sql immutable as $$ select ('00000000-0000-4000-8000-00000000000' || h)::uuid $$;
create or replace function reset(lease_ms bigint default 600000) returns void language plpgsql as $$
begin
  delete from pglock.leases; delete from pglock.lease_shares; delete from pglock.lease_waiters; delete from pglock.holders;
  insert into pglock.leases (space, number) values (1, 77), (1, 78); -- so that no call waits for the insertion of a key, see newkey.spec
  for h in 1..4 loop perform pglock.lease_open(u(h), lease_ms, 'app', 'host', h); end loop;
end $$;
create or replace function take(h int, a bigint, sh bool default false, wt bool default false, arr bigint default 0) returns text language plpgsql as $$
declare r record;
begin
  select * into r from pglock.lease_call(u(h), a, '{}', '{}', '{}', '{}', case when not sh and arr = 0 then 1 else 0 end, '{1}', '{77}', array[sh], array[wt], array[arr]);
  perform set_config('t.letter', coalesce(r.taken, r.outcome), false), set_config('t.value', coalesce(r.results[1], 0)::text, false);
  return coalesce(r.taken, r.outcome);
end $$;
create or replace function take2(h int, a bigint, n1 bigint, n2 bigint) returns text language plpgsql as $$
declare r record;
begin
  select * into r from pglock.lease_call(u(h), a, '{}', '{}', '{}', '{}', 0, '{1,1}', array[n1, n2], '{f,f}', '{f,f}', '{0,0}');
  perform set_config('t.letter', left(coalesce(r.taken, r.outcome), 1), false), set_config('t.value', coalesce(r.results[1], 0)::text, false);
  return coalesce(r.taken, r.outcome);
end $$;
-- claim: called after the commit of a call
create or replace function claim(sh bool default false) returns text language plpgsql as $$
begin
  if current_setting('t.letter', true) is distinct from 'g' then return 'not granted'; end if;
  if sh then
    if not pg_try_advisory_lock_shared(1) then raise exception 'VIOLATION: a reader beside a writer'; end if;
  elsif not pg_try_advisory_lock(1) then raise exception 'VIOLATION: two holders'; end if;
  return 'holds';
end $$;
create or replace function drop_it(h int, a bigint, sh bool default false) returns text language plpgsql as $$
declare r record;
begin
  if current_setting('t.letter', true) is distinct from 'g' then return 'nothing'; end if;
  if sh then perform pg_advisory_unlock_shared(1); else perform pg_advisory_unlock(1); end if;
  perform set_config('t.letter', '', false);
  select * into r from pglock.lease_call(u(h), a, case when sh then '{s}' else '{x}' end::text[], '{1}', '{77}', array[current_setting('t.value')::bigint], 0, '{}', '{}', '{}', '{}', '{}');
  return coalesce(r.dropped, r.outcome);
end $$;
create or replace function guard(h int, sh bool default false) returns text language plpgsql as $$
declare s text;
begin
  s := pglock.lease_guard(u(h), current_setting('t.gen', true)::bigint, sh, 1::smallint, 77);
  -- a guarded transaction: no other session may hold the lock until it ends
  if s = 'guarded' and not pg_try_advisory_xact_lock(1) then raise exception 'VIOLATION: guarded while another holds'; end if;
  return s;
end $$;
create or replace function wait_or_take(h int, a bigint, sh bool default false) returns text language plpgsql as $$
begin return take(h, a, sh, true, 0); end $$;
-- at the end: if the lock is free and has waiters, nothing is in the way of the first in line alone, and it gets the lock
create or replace function no_lost_waiter() returns text language plpgsql as $$
declare w record; r text; ahead bigint; first record;
begin
  if exists (select from pglock.leases l join pglock.holders h on h.id = l.holder and not h.ended where number = 77) or exists (select from pglock.lease_shares where number = 77) then return 'held'; end if;
  for w in select q.*, substr(q.holder::text, 36)::int as h from pglock.lease_waiters q join pglock.holders h on h.id = q.holder and not h.ended where number = 77 order by arrival loop
    ahead := pglock.lease_ahead(1::smallint, 77, w.shared, w.arrival, true);
    if first is null then first := w; if ahead > 0 then raise exception 'VIOLATION: something is in the way of the first waiter'; end if;
    elsif ahead = 0 and not w.shared then raise exception 'VIOLATION: nothing is in the way of a later waiter'; end if;
  end loop;
  if first is null then return 'nobody waits'; end if;
  r := take(first.h, 1000, first.shared, true, first.arrival);
  if r <> 'g' then raise exception 'VIOLATION: the first waiter gets %', r; end if;
  if exists (select from pglock.lease_waiters q where q.arrival = first.arrival) then raise exception 'VIOLATION: it still waits'; end if;
  return 'the first waiter has it';
end $$;
create table if not exists gen (g bigint); create table if not exists told (until timestamptz);
create or replace function drop_gen(h int, a bigint) returns text language sql volatile as $$
  select r.dropped from pglock.lease_call(u(h), a, '{x}', '{1}', '{77}', (select array_agg(g) from gen), 0, '{}', '{}', '{}', '{}', '{}') r $$;
create or replace function settle(h int, a bigint) returns void language sql volatile as $$ select pglock.lease_settle(u(h), a, '{1}', '{77}') $$;
