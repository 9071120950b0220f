CREATE INDEX CONCURRENTLY invoices_by_tenant ON invoices (tenant) WHERE NOT paid;
