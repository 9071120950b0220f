-- The bank and the deployments of pglock demo. Its tables are in cmd/pglock/internal/demo/schema.sql.

-- name: RegisterNames :exec
SELECT pglock.register(VARIADIC array_agg('account:' || id) || 'tally'::text) FROM generate_series(1, 4) AS id;

-- name: CloseBank :exec
TRUNCATE account, transfer;

-- name: OpenAccounts :exec
INSERT INTO account SELECT id, 1000 FROM generate_series(1, 4) AS id;

-- Compares the accounts with the sums of the transfers.
-- name: Audit :one
SELECT sum(a.balance)::bigint AS total,
       count(*) FILTER (WHERE a.balance <> 1000 + (
           SELECT coalesce(sum(CASE a.id WHEN t.payee THEN t.amount ELSE -t.amount END), 0)
           FROM transfer AS t WHERE a.id IN (t.payer, t.payee))) AS wrong,
       (SELECT count(*) FROM transfer) AS transfers,
       (SELECT y.transfers FROM tally AS y)::bigint AS tally
FROM account AS a;

-- name: Balances :one
SELECT a.balance AS payer, b.balance AS payee FROM account AS a, account AS b WHERE a.id = @payer AND b.id = @payee;

-- name: SetBalance :exec
UPDATE account SET balance = @balance WHERE id = @id;

-- name: AddTransfer :exec
INSERT INTO transfer (payer, payee, amount) VALUES (@payer, @payee, @amount);

-- name: Transfers :one
SELECT transfers FROM tally;

-- name: SetTransfers :exec
UPDATE tally SET transfers = @transfers;

-- name: Deployment :one
SELECT number FROM deployment;

-- name: SetDeployment :exec
UPDATE deployment SET number = @number;
