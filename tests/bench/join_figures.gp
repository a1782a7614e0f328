# Draws what bench-join --figures prints: for each network of section 6 of the report (its Figures 8, 9
# and 10) the makespan over that of storing everything against the slots, for L = 5 .. 25; lines: the
# optimum, points: EQUIV-CHAIN.   gnuplot -e "data='F.tsv'; out='F.svg'; kind='svg'" join_figures.gp
set terminal (kind eq 'png' ? 'pngcairo' : 'svg') size 1200,420 font ',11'
set output out
set multiplot layout 1,3
set xlabel 'slots'
set ylabel 'makespan / storing everything'
set logscale x
set yrange [0.95:3]
set key top right
do for [n = 0:2] {
    set title word('recurrent cross-modal siamese', n + 1)
    plot for [i = 0:4] data index 5 * n + i using 3:4 with lines lw 2 lc i + 1 title sprintf('L = %d', 5 * i + 5), \
         for [i = 0:4] data index 5 * n + i using 3:5 with points pt 7 ps 0.3 lc i + 1 notitle
}
unset multiplot
