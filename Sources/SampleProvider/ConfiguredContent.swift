import WidgetModel

/// Content with one entry that is reloaded after an hour.
protocol OneEntryContent: SampleContent {
    /// Appends the members of the entry's content, except its revision.
    static func writeContent(_ moment: SampleMoment, to writer: inout SampleWriter)
    static func url(_ moment: SampleMoment) -> String
}

extension OneEntryContent {
    static func writeTimeline(_ moment: SampleMoment, to writer: inout SampleWriter) {
        writer.policy(after: moment.now.wholeSecond + .seconds(3_600))
        writer.beginArray("entries")
        writeSnapshot(moment, to: &writer)
        writer.endArray()
    }

    static func writeSnapshot(_ moment: SampleMoment, to writer: inout SampleWriter) {
        writer.beginObject()
        writer.member("date", moment.now.wholeSecond)
        writer.beginObject("content")
        writer.member("revision", moment.revision)
        writeContent(moment, to: &writer)
        writer.endObject()
        writer.member("url", url(moment))
        writer.endObject()
    }

    static func writePlaceholder(_ request: SampleRequest, to writer: inout SampleWriter) {
        writer.beginObject()
        writer.endObject()
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

    static func writeContent(_ moment: SampleMoment, to writer: inout SampleWriter) {
        var random = moment.random(withRevision: true)
        writer.member("symbol", moment.parameter("symbol", default: "AAPL"))
        writer.member("price", amount: random.integer(in: 1_000...90_000))
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

    static func writeContent(_ moment: SampleMoment, to writer: inout SampleWriter) {
        var random = moment.random(withRevision: true)
        writer.beginArray("lists")
        for list in moment.request.lists["lists"] ?? ["today"] {
            writer.beginObject()
            writer.member("name", lists.options.first { $0.identifier == list }?.display ?? list)
            writer.member("open", random.integer(in: 0...20))
            writer.endObject()
        }
        writer.endArray()
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

    static func writeContent(_ moment: SampleMoment, to writer: inout SampleWriter) {
        var random = moment.random(withRevision: true)
        writer.member("calendar", moment.request.lists["calendars"]?.first ?? "home")
        writer.member("minutesLeft", random.integer(in: 1...600))
    }

    static func url(_ moment: SampleMoment) -> String { "calendar:///next" }
}
