import Testing
import WidgetAPI

@Suite struct MetricsPageTests {
    @Test func aCounterAndAGaugeAsPrometheusReadsThem() {
        let page = MetricsPage {
            [
                .init("ingest_events", "Events,\nall.", 12),
                .init("ingest_halted", .gauge, #"1 while C:\ waits."#, 0),
            ]
        }
        #expect(
            page.text == #"""
                # HELP freshet_ingest_events_total Events,\nall.
                # TYPE freshet_ingest_events_total counter
                freshet_ingest_events_total 12
                # HELP freshet_ingest_halted 1 while C:\\ waits.
                # TYPE freshet_ingest_halted gauge
                freshet_ingest_halted 0

                """#)
        #expect(MetricsPage().text.isEmpty)
    }
}
