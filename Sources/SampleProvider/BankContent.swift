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

    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        parameter == "card" ? [cards, debitCards].matching(search) : nil
    }

    /// The primary card.
    static var defaults: [String: SampleSection.Option] { ["card": cards.options[0]] }
    static var placeholder: JSONValue { ["card": "Card", "purchases": []] }

    static func timeline(_ moment: SampleMoment) -> SampleTimeline {
        let now = moment.now.wholeSecond
        var random = moment.random(withRevision: true)
        let card = moment.parameter("card", default: "acme")
        let category = moment.parameter("category", default: "all")
        let choices = merchants.filter { category == "all" || $0.category == category }
        let count = moment.request.family == "systemSmall" ? 1 : moment.request.family == "systemLarge" ? 6 : 3
        var latest = 0
        let purchases = (0..<count).map { index -> JSONValue in
            let cents = random.integer(in: 100...12_000)
            if index == 0 { latest = cents }
            let merchant = choices.isEmpty ? (name: "Other", category: category) : random.pick(choices)
            return [
                "merchant": .string(merchant.name), "category": .string(merchant.category), "amount": .amount(cents),
                "time": .time(now - .seconds(index * 3_600 + random.integer(in: 0...1_800))),
            ]
        }
        let entry: JSONValue = [
            "date": .time(now),
            "content": [
                "card": .string(cardNames[card] ?? card), "category": .string(category),
                "revision": .count(moment.revision), "generatedAt": .time(now), "purchases": .array(purchases),
            ],
            // Over $50 matters, for half an hour.
            "relevance": .relevance(hundredths: latest > 5_000 ? 100 : 10, duration: 1_800),
            "url": .string("bank:///cards/\(card)"),
        ]
        return SampleTimeline(policy: ["after": .time(now + .seconds(30 * 60))], entries: [entry])
    }
}

/// Due date of a card's next payment: an entry for each day until then.
enum DueDate: SampleContent {
    static func options(of parameter: String, search: String?) -> [SampleSection]? {
        RecentPurchases.options(of: parameter, search: search)
    }

    static var defaults: [String: SampleSection.Option] { RecentPurchases.defaults }
    static var placeholder: JSONValue { ["card": "Card", "daysLeft": 0] }

    static func timeline(_ moment: SampleMoment) -> SampleTimeline {
        let days = SampleDays(of: moment)
        let due = dueDate(moment, days)
        var random = moment.random(withRevision: true)
        let card = moment.parameter("card", default: "acme")
        let payment: JSONValue = [
            "card": .string(card), "dueDate": .time(due), "minimum": .amount(random.integer(in: 1_000...9_900)),
        ]
        var entries: [JSONValue] = []
        var date = moment.now.wholeSecond
        repeat {
            let daysLeft = days.count(from: date, to: due)
            entries.append([
                "date": .time(date),
                "content": ["payment": payment, "revision": .count(moment.revision), "daysLeft": .count(daysLeft)],
                // The nearer, the likelier to be shown: 1 on the day itself.
                "relevance": .relevance(hundredths: 100 / (daysLeft + 1), duration: 86_400),
                "url": .string("bank:///cards/\(card)/payments"),
            ])
            date = days.midnight(after: date)
        } while date <= due
        // Not at midnight, when the timelines of everyone would be requested.
        let next = days.midnight(after: due) + .seconds(1 + Int(moment.request.identity % 3_599))
        return SampleTimeline(policy: ["after": .time(next)], entries: entries)
    }

    /// The next day on which a payment is due, which comes every fourteen days; the same for every revision.
    private static func dueDate(_ moment: SampleMoment, _ days: SampleDays) -> Timestamp {
        var random = moment.random(withRevision: false)
        let today = days.number(of: moment.now)
        let sinceLast = (today + random.integer(in: 0...13)) % 14
        return days.midnight(ofDay: today + (14 - sinceLast) % 14)
    }
}
