-- pglock: key billing-schema -- the tables of this service
-- pglock: key invoice:{id bigint} -- one invoice, whatever is done to it
-- pglock: key tenant:{tenant text} -- the invoices of a tenant: shared to add one, exclusive to close a month

-- name: AddInvoice :exec
-- pglock: lock tenant:{tenant} shared max_wait=300ms
INSERT INTO invoices (id, tenant, cents) VALUES (@id, @tenant, @cents);

-- name: PayInvoice :execrows
-- pglock: lock invoice:{id} max_wait=300ms
UPDATE invoices SET paid = true WHERE id = @id AND NOT paid;

-- name: OpenCents :one
SELECT coalesce(sum(cents), 0)::bigint FROM invoices WHERE tenant = @tenant AND NOT paid;

-- name: AddStatement :exec
INSERT INTO statements (tenant, month, cents) VALUES (@tenant, @month, @cents);

-- name: Statements :many
SELECT month, cents FROM statements WHERE tenant = @tenant ORDER BY month;
