-- pglock: key invoice:{id bigint} -- one invoice, whatever is done to it
-- pglock: key tenant:{tenant text}:invoice:{id bigint}
-- pglock: key nightly-report
-- pglock: key document:{id uuid}@{version integer}:{seen timestamptz}:{fresh boolean}

-- name: ListInvoices :many
SELECT * FROM invoices ORDER BY id;

-- PayInvoice pays.
-- name: PayInvoice :exec
-- pglock: lock invoice:{id}
UPDATE invoices SET paid = true WHERE id = @id;

-- name: PayInvoiceRows :execrows
-- pglock: lock invoice:{id=invoice_id} max_wait=100ms
UPDATE invoices SET paid = true WHERE id = @invoice_id;

-- name: PayInvoiceResult :execresult
-- pglock: lock invoice:{id} try
UPDATE invoices SET paid = true WHERE id = @id;

-- name: GetInvoice :one
-- pglock: lock invoice:{id} shared
SELECT * FROM invoices WHERE id = @id;

-- name: NoteInvoice :one
-- pglock: lock invoice:{id} max_wait=100ms
UPDATE invoices SET note = @note WHERE id = @id RETURNING * -- and the end is a comment
;

-- name: LockedInvoices :many
-- pglock: lock invoice:{id=ids} try
SELECT id, paid FROM invoices WHERE id = ANY(@ids::bigint[]) ORDER BY id -- nothing follows
;

-- name: TenantInvoices :many
-- pglock: lock tenant:{tenant}:invoice:{id}
-- pglock: lock nightly-report shared
SELECT id, 100 / id AS share FROM invoices WHERE tenant = @tenant AND (id = @id OR id >= 0) ORDER BY id DESC;

-- name: TouchDocument :exec
-- pglock: lock document:{id}@{version}:{seen}:{fresh}
UPDATE documents SET version = version + 1
WHERE id = @id AND version = @version AND seen <= @seen AND @fresh::boolean;

-- name: CountInvoices :one
SELECT count(*) FROM invoices WHERE tenant = @tenant;
