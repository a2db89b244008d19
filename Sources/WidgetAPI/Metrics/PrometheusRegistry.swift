package import Metrics
import Synchronization
package import WidgetModel

/// A swift-metrics backend that writes a page in Prometheus' text format.
///
/// Metrics of the catalogue have its types, help texts and bounds; others get a name that Prometheus allows. Series
/// beyond the limit of a metric are counted and dropped, so that memory is bounded.
package final class PrometheusRegistry: MetricsFactory {
    private struct Family {
        let definition: MetricDefinition
        /// Series by their labels as text.
        var series: [String: any MetricSeries] = [:]
    }

    private let catalogue: [String: MetricDefinition]
    private let maximumSeries: Int
    private let families = Mutex<[String: Family]>([:])
    private let dropped = CounterSeries()

    package init(_ catalogue: [MetricDefinition] = MetricCatalogue.all, maximumSeries: Int = 2_000) {
        self.catalogue = Dictionary(catalogue.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        self.maximumSeries = maximumSeries
    }

    /// The page, in the order of the names.
    package var text: String {
        var text = ""
        var shown = families.withLock { $0 }
        if catalogue[MetricCatalogue.droppedSeries.name] != nil {
            shown[MetricCatalogue.droppedSeries.name] = Family(
                definition: MetricCatalogue.droppedSeries, series: ["": dropped])
        }
        for (name, family) in shown.sorted(by: { $0.key < $1.key }) where !family.series.isEmpty {
            text += "# HELP \(name) \(PrometheusText.escaped(family.definition.help, alsoQuotes: false))\n"
            text += "# TYPE \(name) \(family.definition.instrument.name)\n"
            for (labels, series) in family.series.sorted(by: { $0.key < $1.key }) {
                series.write(name, labels, to: &text)
            }
        }
        return text
    }

    // MARK: Series

    /// The series of a metric with these labels, created if it does not exist. A series beyond the limits is not kept.
    private func series<Series: MetricSeries>(
        _ label: String, _ instrument: MetricDefinition.Instrument, _ dimensions: [(String, String)],
        _ make: () -> Series
    ) -> Series {
        let name = PrometheusText.metricName(label)
        let labels = PrometheusText.labels(dimensions)
        let found: Series? = families.withLock { families in
            var family =
                families[name]
                ?? Family(definition: catalogue[name] ?? MetricDefinition(name, instrument, label))
            if let known = family.series[labels] { return known as? Series }
            // Prometheus refuses a page with a metric of two types.
            guard family.definition.instrument.name == instrument.name, family.series.count < maximumSeries else {
                return nil
            }
            let new = make()
            family.series[labels] = new
            families[name] = family
            return new
        }
        if let found { return found }
        dropped.increment(by: Int64(1))
        return make()
    }

    private func remove(_ handler: AnyObject) {
        families.withLock { families in
            for (name, family) in families {
                guard let key = family.series.first(where: { $0.value === handler })?.key else { continue }
                families[name]?.series[key] = nil
            }
        }
    }

    private func bounds(of label: String) -> [Double] {
        guard case .histogram(let bounds)? = catalogue[PrometheusText.metricName(label)]?.instrument else {
            return MetricDefinition.seconds
        }
        return bounds
    }

    // MARK: MetricsFactory

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(label, .counter, dimensions) { CounterSeries() }
    }

    package func makeFloatingPointCounter(
        label: String, dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        series(label, .counter, dimensions) { CounterSeries() }
    }

    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, .gauge, dimensions) { GaugeSeries() }
    }

    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        guard aggregate else { return series(label, .gauge, dimensions) { GaugeSeries() } }
        let bounds = bounds(of: label)
        return series(label, .histogram(bounds), dimensions) { HistogramSeries(bounds) }
    }

    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        let bounds = bounds(of: label)
        return series(label, .histogram(bounds), dimensions) { HistogramSeries(bounds) }
    }

    package func destroyCounter(_ handler: any CounterHandler) { remove(handler) }
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { remove(handler) }
    package func destroyMeter(_ handler: any MeterHandler) { remove(handler) }
    package func destroyRecorder(_ handler: any RecorderHandler) { remove(handler) }
    package func destroyTimer(_ handler: any TimerHandler) { remove(handler) }
}
