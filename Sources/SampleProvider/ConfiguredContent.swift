import WidgetModel

/// Content with one entry that is reloaded after an hour.
protocol OneEntryContent: SampleContent {
    /// The entry's content, except its revision.
    static func content(_ moment: SampleMoment) -> JSONValue
    static func url(_ moment: SampleMoment) -> String
}

extension OneEntryContent {
    static func timeline(_ moment: SampleMoment) -> SampleTimeline {
        let now = moment.now.wholeSecond
        let entry: JSONValue = [
            "date": .time(now), "content": content(moment).adding("revision", .count(moment.revision)),
            "url": .string(url(moment)),
        ]
        return SampleTimeline(policy: ["after": .time(now + .seconds(3_600))], entries: [entry])
    }
}

/// The price of any stock: the list offers some, the search finds all.
enum StockSymbol: OneEntryContent {
    private static let popular = SampleSection("Popular", [("AAPL", "Apple"), ("DIS", "Disney"), ("NKE", "Nike")])

    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        guard parameter == "symbol" else { return nil }
        let found = [popular].matching(search)
        guard let search, !search.isEmpty, found.isEmpty else { return found }
        return [SampleSection("Symbols", [(search.uppercased(), search.uppercased())])]
    }

    static func content(_ moment: SampleMoment) -> JSONValue {
        var random = moment.random(withRevision: true)
        return [
            "symbol": .string(moment.parameter("symbol", default: "AAPL")),
            "price": .amount(random.integer(in: 1_000...90_000)),
        ]
    }

    static func url(_ moment: SampleMoment) -> String { "stocks:///\(moment.parameter("symbol", default: "AAPL"))" }
}

/// Reminders of several lists: three in a small widget, six in a larger one.
enum ReminderLists: OneEntryContent {
    private static let lists = SampleSection(
        "Lists",
        [
            ("today", "Today"), ("groceries", "Groceries"), ("work", "Work"), ("garden", "Garden"), ("books", "Books"),
            ("travel", "Travel"), ("gifts", "Gifts"),
        ])

    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        parameter == "lists" ? [lists].matching(search) : nil
    }

    static func content(_ moment: SampleMoment) -> JSONValue {
        var random = moment.random(withRevision: true)
        let shown = (moment.request.lists["lists"] ?? ["today"]).map { list -> JSONValue in
            let name = lists.options.first { $0.identifier == list }?.display ?? list
            return ["name": .string(name), "open": .count(random.integer(in: 0...20))]
        }
        return ["lists": .array(shown)]
    }

    static func url(_ moment: SampleMoment) -> String { "reminders:///" }
}

/// The next event: of the calendars that the Calendar app shows, or of chosen ones.
enum UpNext: OneEntryContent {
    private static let calendars = [
        SampleSection("iCloud", [("home", "Home"), ("work", "Work")]),
        SampleSection("Other", [("holidays", "Holidays"), ("birthdays", "Birthdays")]),
    ]

    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        parameter == "calendars" ? calendars.matching(search) : nil
    }

    static func content(_ moment: SampleMoment) -> JSONValue {
        var random = moment.random(withRevision: true)
        return [
            "calendar": .string(moment.request.lists["calendars"]?.first ?? "home"),
            "minutesLeft": .count(random.integer(in: 1...600)),
        ]
    }

    static func url(_ moment: SampleMoment) -> String { "calendar:///next" }
}
