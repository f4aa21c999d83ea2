"""One tensor of one operator, element by element: `opdiff op` and `opdiff compare -op`.

dumps, rules ──pair──► Pairing ──read──► blocks ──measure──► Detail ──write──► tables, .npy
└──explain──► Explanation, …
"""
