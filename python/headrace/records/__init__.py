"""Step 4 of the way: append-only records, one directory a trial, made whole elsewhere and renamed into place."""
