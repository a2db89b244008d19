import Foundation

/// Numbers for people.
enum NumberText {
    /// A number that was counted up to a limit.
    static func upTo(_ limit: Int, _ number: Int) -> String {
        number < limit ? "\(number)" : "at least \(number)"
    }

    /// `1 reload`, `1,234 reloads`.
    static func counted(_ number: Int, _ noun: String) -> String {
        "\(grouped(number)) \(noun)\(number == 1 ? "" : "s")"
    }

    /// `1,234,567`.
    static func grouped(_ number: Int) -> String {
        number.formatted(.number.locale(Locale(identifier: "en_US")))
    }
}
