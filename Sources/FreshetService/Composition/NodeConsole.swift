import JSON
import ReloadWorkers
import WidgetAPI
import WidgetModel
import WidgetStore

extension Manifest {
    /// Reads the definitions of a manifest that is compared and not applied.
    ///
    /// References to secrets are not followed, so that nobody can find out whether a file or a variable exists.
    static func definitions(of text: String) -> Result<[AppDefinition], ManifestProblem> {
        // Nested aliases grow exponentially, and as keys of mappings they are compared before any limit applies.
        guard !text.contains(/(^|[\s\[{,:\-])&\S/) else {
            return .failure(ManifestProblem(text: "the manifest has anchors (&name), which are not read here"))
        }
        do throws(ManifestError) {
            let manifest = try read(text: text, file: "manifest", followsSecrets: false)
            return .success(manifest.apps.map(\.definition))
        } catch {
            return .failure(ManifestProblem(text: error.description))
        }
    }
}

extension WorkerService {
    /// Returns the health of an app's providers in this process, by URL, for the console.
    func health(ofProvidersOf app: String) -> [String: JSONValue] {
        providers(of: app).mapValues { record in
            [
                "breaker": record.isOpen ? "open" : "closed", "style": record.isOpen ? "bad" : "good",
                "limit": .count(record.limit), "milliseconds": .count(record.latency?.wholeMilliseconds),
                "answeredAt": .time(record.answeredAt), "failedAt": .time(record.failedAt),
                "failure": .text(record.failure),
            ]
        }
    }
}

extension MetricHistory {
    /// Returns a service that records samples of the metrics for the console's charts.
    func recorder(of metrics: MetricRegistry, every interval: Duration) -> BackgroundService {
        BackgroundService("console history") { [self] in
            while true {
                record(metrics)
                try await Task.sleep(for: interval)
            }
        }
    }
}
