"""A site learnt from itself: a few cells measured, values fitted, others predicted and checked."""
