import AsyncHTTPClient
import FreshetService
import NIOCore
import WidgetModel

extension Doctor {
    /// Reads the audit's counter from the process on health.port.
    func checkAudit() async -> [Finding] {
        guard let port = settings.health.port, port != 0, let base = try? HealthCommand.address(in: settings) else {
            return [.skipped("audit", "not read: health.port is not set")]
        }
        do {
            let response = try await HTTPClient.shared.execute(
                HTTPClientRequest(url: base + "/metrics"), timeout: TimeAmount(timeLimit / 3))
            let body = try await response.body.collect(upTo: 16 << 20)
            return [Self.judge(metrics: String(buffer: body))]
        } catch {
            return [.skipped("audit", "not read: no process answers on \(base)")]
        }
    }

    /// Finding for the audit's counter in a page of metrics.
    static func judge(metrics page: String) -> Finding {
        let name = MetricCatalogue.auditAppointed.name
        let values = page.split(separator: "\n").filter { $0.hasPrefix(name + " ") || $0.hasPrefix(name + "{") }
            .compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }
        guard !values.isEmpty else {
            return .skipped("audit", "the process on health.port runs no workers: run doctor beside one that does")
        }
        let appointed = Int(values.reduce(0, +))
        guard appointed > 0 else { return .ok("audit", "every timeline with something to do had its appointment") }
        return .problem(
            "audit", "\(appointed) timelines had something to do and no work list: the audit has appointed them anew",
            "this is a defect of Freshet: see FreshetAuditAppointed in deploy/runbook.md, and report it")
    }
}
