CREATE TABLE invoices (id bigint PRIMARY KEY, tenant text NOT NULL, paid boolean NOT NULL DEFAULT false);
