-- Version 4: when a person had an item forgotten; NULL unless that stands. The row stays as long as the
-- decisions on it, and comes back to life when the item is seen again.
ALTER TABLE item ADD COLUMN forgotten_at INTEGER;
