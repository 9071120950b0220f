// Package rowadapters tests the adapters on locks in rows, behind a pooler of transactions.
package rowadapters
