// SPDX-License-Identifier: Apache-2.0

import JSON

extension IntentParameter {
    /// Parts of a date that its values have.
    package enum DateComponents: NamedValue {
        /// A day: `2026-06-22`.
        case date
        /// A time of day, in the widget's time zone: `09:41`.
        case time
        /// A point in time, in UTC when it is stored: `2026-06-22T07:41:00Z`.
        case dateTime

        package static let names = nameTable()
    }

    /// The value of a date for the identity; nil for a text of another form. Without components it is a day or a point
    /// in time.
    static func date(_ text: String, _ components: DateComponents?) -> String? {
        switch components {
        case .date: isDay(text) ? text : nil
        case .time: isTime(text) ? text : nil
        case .dateTime: Timestamp(rfc3339: text)?.rfc3339
        case nil: isDay(text) ? text : Timestamp(rfc3339: text)?.rfc3339
        }
    }

    /// The form of a date in words.
    static func dateForm(_ components: DateComponents?) -> String {
        switch components {
        case .date: "a day such as 2026-06-22"
        case .time: "a time of day such as 09:41"
        case .dateTime: "a point in time such as 2026-06-22T09:41:00Z"
        case nil: "a date such as 2026-06-22 or 2026-06-22T09:41:00Z"
        }
    }

    private static func isDay(_ text: String) -> Bool {
        text.utf8.count == 10 && Timestamp(rfc3339: text + "T00:00:00Z") != nil
    }

    private static func isTime(_ text: String) -> Bool {
        text.utf8.count == 5 && Timestamp(rfc3339: "2026-06-22T\(text):00Z") != nil
    }
}
