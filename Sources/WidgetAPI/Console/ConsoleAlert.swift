/// Alerts, which are headings of the runbook.
enum ConsoleAlert: String, CaseIterable {
    case down, ingestLagging, ingestHalted, ingestBlocked, partitionStands, eventsLost, timelinesOverdue
    case auditAppointed, timelinesStale, deadLetters, kindUnreadable, timelinesUnreadable, appDiverted, eventsDropped
    case deadLetterQuota, breakerOpen, providerErrors, oldTransaction, deadTuples, poolWaits, outputFailing
    case metricsStale, deliveryLate, deliveryStalled, pushesRefused, webhookFails, webhookDisabled

    var name: String { "Freshet\(rawValue.prefix(1).uppercased())\(rawValue.dropFirst())" }

    /// Address of the alert's entry.
    ///
    /// - Parameter runbook: URL of the runbook.
    func link(_ runbook: String) -> String { "\(runbook)#\(name.lowercased())" }
}
