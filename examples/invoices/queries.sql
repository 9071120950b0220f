-- pglock: key invoice:{id bigint} -- one invoice, whatever is done to it
-- pglock: key tenant:{tenant text} -- all invoices of a tenant

-- name: AddInvoice :exec
-- pglock: lock tenant:{tenant} shared
INSERT INTO invoices (id, tenant, cents) VALUES (@id, @tenant, @cents);

-- name: PayInvoice :execrows
-- pglock: lock invoice:{id} max_wait=2s
UPDATE invoices SET paid = true WHERE id = @id AND NOT paid;

-- name: PayInvoices :many
-- pglock: lock invoice:{id=ids} try savepoint
UPDATE invoices SET paid = true WHERE id = ANY(@ids::bigint[]) AND NOT paid RETURNING id;

-- name: Bill :one
-- pglock: lock tenant:{tenant}
SELECT coalesce(sum(cents), 0)::bigint AS cents FROM invoices WHERE tenant = @tenant AND NOT paid;
