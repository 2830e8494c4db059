// Writes what client_golang exposes for histograms with the options of Kubernetes 1.37, one JSON object a line:
// the observed values, and the delimited protobuf message of the family.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func powers(base float64, from, to int) []float64 {
	var values []float64
	for i := from; i < to; i++ {
		values = append(values, math.Pow(base, float64(i)))
	}
	return values
}

func around(values ...float64) []float64 {
	var all []float64
	for _, v := range values {
		all = append(all, math.Nextafter(v, math.Inf(-1)), v, math.Nextafter(v, math.Inf(1)))
	}
	return all
}

func negated(values []float64) []float64 {
	var all []float64
	for _, v := range values {
		all = append(all, -v)
	}
	return all
}

// Durations of many magnitudes from a fixed sequence of pseudo-random numbers.
func durations(n int) []float64 {
	state, values := uint64(42), []float64(nil)
	for range n {
		state = state*6364136223846793005 + 1442695040888963407
		values = append(values, math.Pow(10, float64(state>>40)/float64(1<<24)*6-4))
	}
	return values
}

func main() {
	cases := []struct {
		name   string
		values []float64
	}{
		{"empty", nil},
		{"one second", []float64{1}},
		{"gaps", []float64{1, 1, 1.2, 1.7, 2, 3, 3, 3, 8, 100}},
		{"edges", around(0.25, 0.5, 1, 1.0905077326652577, 1.189207115002721, 2, 64)},
		{"zero", append(around(0, math.Pow(2, -128)), negated(around(0, math.Pow(2, -128)))...)},
		{"extremes", []float64{math.MaxFloat64, math.Inf(1), -math.MaxFloat64, math.Inf(-1), 1e300, 5e-324}},
		{"not a number", []float64{1, math.NaN(), 2}},
		{"negative", append(negated(powers(1.5, -10, 10)), powers(1.3, 0, 20)...)},
		{"as many buckets as allowed", powers(2, 0, 160)},
		{"one bucket too many", powers(2, 0, 161)},
		{"halved once", powers(1.09, -100, 100)},
		{"halved often", append(powers(2.5, -90, 160), negated(powers(3, -70, 60))...)},
		{"halved with infinity", append(append([]float64{math.Inf(1), math.MaxFloat64}, powers(1.1, 0, 170)...), math.Inf(1))},
		{"widest", append(powers(512, -14, 111), negated(powers(512, -14, 111))...)},
		{"durations", durations(200)},
	}
	out := json.NewEncoder(os.Stdout)
	for _, c := range cases {
		registry := prometheus.NewRegistry()
		histogram := prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                           "recorded_seconds",
			Help:                           "Recorded.",
			Buckets:                        []float64{0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0},
			NativeHistogramBucketFactor:    1.1,
			NativeHistogramMaxBucketNumber: 160,
		})
		registry.MustRegister(histogram)
		texts := []string{}
		for _, v := range c.values {
			histogram.Observe(v)
			texts = append(texts, strconv.FormatFloat(v, 'g', -1, 64))
		}
		families, err := registry.Gather()
		if err != nil {
			panic(err)
		}
		families[0].Metric[0].Histogram.CreatedTimestamp = timestamppb.New(time.Unix(1764360000, 250000000))
		var message bytes.Buffer
		if err := expfmt.NewEncoder(&message, expfmt.NewFormat(expfmt.TypeProtoDelim)).Encode(families[0]); err != nil {
			panic(err)
		}
		err = out.Encode(map[string]any{
			"name":   c.name,
			"values": texts,
			"family": base64.StdEncoding.EncodeToString(message.Bytes()),
		})
		if err != nil {
			panic(err)
		}
	}
}
