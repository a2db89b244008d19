import WidgetModel

/// The purchases made last with a card, of one category or all.
enum RecentPurchases: SampleContent {
    private static let cards = SampleSection(
        "Credit", [("acme", "Acme Card"), ("soup", "Soup Pay"), ("metro", "Metro Gold")])
    private static let debitCards = SampleSection("Debit", [("everyday", "Everyday Account")])
    private static let merchants: [(name: String, category: String)] = [
        ("Corner Grocer", "groceries"), ("Green Market", "groceries"), ("Soup Place", "restaurants"),
        ("Noodle Bar", "restaurants"), ("City Cinema", "entertainment"), ("Vinyl Store", "entertainment"),
        ("Night Train", "travel"), ("Harbour Hotel", "travel"),
    ]

    private static let cardNames = Dictionary(
        uniqueKeysWithValues: (cards.options + debitCards.options).map { ($0.identifier, $0.display) })
    private static let merchantsByCategory = Dictionary(grouping: merchants, by: \.category)

    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        parameter == "card" ? [cards, debitCards].matching(search) : nil
    }

    /// The primary card.
    static var defaults: [String: SampleSection.Option] { ["card": cards.options[0]] }

    static func writeTimeline(_ moment: SampleMoment, to writer: inout SampleWriter) {
        let now = moment.now.wholeSecond
        writer.policy(after: now + .seconds(30 * 60))
        writer.beginArray("entries")
        writeEntry(moment, at: now, to: &writer)
        writer.endArray()
    }

    static func writeSnapshot(_ moment: SampleMoment, to writer: inout SampleWriter) {
        writeEntry(moment, at: moment.now.wholeSecond, to: &writer)
    }

    static func writePlaceholder(_ request: SampleRequest, to writer: inout SampleWriter) {
        writer.beginObject()
        writer.member("card", "Card")
        writer.beginArray("purchases")
        writer.endArray()
        writer.endObject()
    }

    private static func writeEntry(_ moment: SampleMoment, at now: Timestamp, to writer: inout SampleWriter) {
        var random = moment.random(withRevision: true)
        let card = moment.parameter("card", default: "acme")
        let category = moment.parameter("category", default: "all")
        let choices = category == "all" ? merchants : merchantsByCategory[category] ?? []
        let name = cardNames[card] ?? card
        let count = moment.request.family == "systemSmall" ? 1 : moment.request.family == "systemLarge" ? 6 : 3
        var latest = 0

        writer.beginObject()
        writer.member("date", now)
        writer.beginObject("content")
        writer.member("card", name)
        writer.member("category", category)
        writer.member("revision", moment.revision)
        writer.member("generatedAt", now)
        writer.beginArray("purchases")
        for index in 0..<count {
            let cents = random.integer(in: 100...12_000)
            if index == 0 { latest = cents }
            let merchant = choices.isEmpty ? (name: "Other", category: category) : random.pick(choices)
            writer.beginObject()
            writer.member("merchant", merchant.name)
            writer.member("category", merchant.category)
            writer.member("amount", amount: cents)
            writer.member("time", now - .seconds(index * 3_600 + random.integer(in: 0...1_800)))
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        // Over $50 matters, for half an hour.
        writer.relevance(hundredths: latest > 5_000 ? 100 : 10, duration: 1_800)
        writer.member("url", "bank:///cards/\(card)")
        writer.endObject()
    }
}

/// Due date of a card's next payment: an entry for each day until then.
enum DueDate: SampleContent {
    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        RecentPurchases.options(of: parameter, search: search)
    }

    static var defaults: [String: SampleSection.Option] { RecentPurchases.defaults }

    static func writeTimeline(_ moment: SampleMoment, to writer: inout SampleWriter) {
        let days = SampleDays(of: moment)
        let due = dueDate(moment, days)
        // Not at midnight, when the timelines of everyone would be requested.
        writer.policy(after: days.midnight(after: due) + .seconds(1 + Int(moment.request.identity % 3_599)))
        writer.beginArray("entries")
        let payment = payment(moment, due: due)
        var date = moment.now.wholeSecond
        repeat {
            writeEntry(
                of: payment, revision: moment.revision, at: date, daysLeft: days.count(from: date, to: due), to: &writer
            )
            date = days.midnight(after: date)
        } while date <= due
        writer.endArray()
    }

    static func writeSnapshot(_ moment: SampleMoment, to writer: inout SampleWriter) {
        let days = SampleDays(of: moment)
        let due = dueDate(moment, days)
        let now = moment.now.wholeSecond
        writeEntry(
            of: payment(moment, due: due), revision: moment.revision, at: now,
            daysLeft: days.count(from: now, to: due), to: &writer)
    }

    static func writePlaceholder(_ request: SampleRequest, to writer: inout SampleWriter) {
        writer.beginObject()
        writer.member("card", "Card")
        writer.member("daysLeft", 0)
        writer.endObject()
    }

    /// The next day on which a payment is due, which comes every fourteen days; the same for every revision.
    private static func dueDate(_ moment: SampleMoment, _ days: SampleDays) -> Timestamp {
        var random = moment.random(withRevision: false)
        let today = days.number(of: moment.now)
        let sinceLast = (today + random.integer(in: 0...13)) % 14
        return days.midnight(ofDay: today + (14 - sinceLast) % 14)
    }

    /// A payment as all entries of a timeline show it.
    private struct Payment {
        let json: [UInt8]
        let url: String
    }

    private static func payment(_ moment: SampleMoment, due: Timestamp) -> Payment {
        var random = moment.random(withRevision: true)
        let card = moment.parameter("card", default: "acme")
        var writer = SampleWriter(reserving: 128)
        writer.beginObject()
        writer.member("card", card)
        writer.member("dueDate", due)
        writer.member("minimum", amount: random.integer(in: 1_000...9_900))
        writer.endObject()
        return Payment(json: writer.bytes, url: "bank:///cards/\(card)/payments")
    }

    private static func writeEntry(
        of payment: Payment, revision: Int, at date: Timestamp, daysLeft: Int, to writer: inout SampleWriter
    ) {
        writer.beginObject()
        writer.member("date", date)
        writer.beginObject("content")
        writer.member("payment", raw: payment.json)
        writer.member("revision", revision)
        writer.member("daysLeft", daysLeft)
        writer.endObject()
        // The nearer, the likelier to be shown: 1 on the day itself.
        writer.relevance(hundredths: 100 / (daysLeft + 1), duration: 86_400)
        writer.member("url", payment.url)
        writer.endObject()
    }
}
