INSERT INTO invoices (id, tenant) SELECT n, 'acme' FROM generate_series(1, 1000) AS n;
