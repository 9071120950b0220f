-- name: PayInvoices :batchexec
-- pglock: lock invoice:{id} max_wait=100ms
UPDATE invoices SET paid = true WHERE id = @id;

-- name: PaidInvoices :batchmany
-- pglock: lock invoice:{id}
SELECT id, paid FROM invoices WHERE id = @id;

-- name: OneInvoice :batchone
-- pglock: lock invoice:{id} try
SELECT id, paid FROM invoices WHERE id = @id;

-- name: AddInvoices :copyfrom
INSERT INTO invoices (id, tenant) VALUES (@id, @tenant);

-- name: PlainInvoices :batchexec
UPDATE invoices SET note = @note WHERE id = @id;

-- name: SliceInvoices :many
-- pglock: lock invoice:{id=ids} try
SELECT id, paid FROM invoices WHERE id = ANY(sqlc.slice(ids)) ORDER BY id;
