/// Alerts, which are headings of the runbook.
enum ConsoleAlert: String, CaseIterable {
    case down, ingestLagging, ingestHalted, ingestBlocked, partitionStands, eventsLost, timelinesOverdue, auditAppointed
    case timelinesStale, deadLetters, appDiverted, eventsDropped, deadLetterQuota, breakerOpen, providerErrors
    case oldTransaction, deadTuples, poolWaits, outputFailing, metricsStale, deliveryLate, deliveryStalled
    case pushesRefused, webhookFails, webhookDisabled

    var name: String { "Freshet\(rawValue.prefix(1).uppercased())\(rawValue.dropFirst())" }

    /// Address of the alert's entry.
    ///
    /// - Parameter runbook: URL of the runbook.
    func link(_ runbook: String) -> String { "\(runbook)#\(name.lowercased())" }
}
