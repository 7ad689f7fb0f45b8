// Two pixels of a plot for each of the page: sharp on paper, too.
devicePixelRatio = Math.max(devicePixelRatio, 2);
