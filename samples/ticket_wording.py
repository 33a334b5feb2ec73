"""The wording that tickets are made of: what customers ask, what surrounds it, and how support answers.

Written for this project. `{order}`, `{product}`, `{date}`, `{amount}`, `{email}` and `{code}` are the ticket's own
values, the ones an answer must copy; `{other_*}` are decoys of the same form that it must not copy.
"""

from __future__ import annotations

# Alphabetical, because that is the order in which a classifier's label numbers are given to the names.
CATEGORIES = ("account", "billing", "cancel", "delivery", "refund", "technical")

REPLIES: dict[str, str] = {
    "account": "{greeting}, we sent a reset link to {email}.",
    "billing": "{greeting}, we are checking the charge of {amount} on order {order}.",
    "cancel": "{greeting}, order {order} for the {product} is cancelled.",
    "delivery": "{greeting}, we are tracing the {product} in order {order}, due {date}.",
    "refund": "{greeting}, we will return {amount} for the {product} in order {order}.",
    "technical": "{greeting}, we will repair the {product} bought on {date}, fault {code}.",
}

# Some lines borrow their neighbour's words (money in technical, lateness in cancel), so no single word decides.
REQUESTS: dict[str, tuple[str, ...]] = {
    "account": (
        "I cannot log in with {email} any more.",
        "The password for {email} is not accepted.",
        "My account {email} has been locked since {other_date}.",
        "The site says that {email} does not exist, although I bought the {other_product} with it.",
        "Please let me back into {email}, I need the invoice of order {other_order}.",
        "I have a new phone and the code for {email} still goes to the old one.",
        "I registered as {email} but no confirmation ever came.",
    ),
    "billing": (
        "Order {order} was charged twice, {amount} each time.",
        "My card shows {amount} for order {order}, but the page said {other_amount}.",
        "Why is there a fee of {amount} on order {order}?",
        "The invoice of order {order} says {amount}, which is not the price of the {other_product}.",
        "You took {amount} for {order} although I had a voucher.",
        "The tax on order {order} looks wrong, the total is {amount}.",
        "I see {amount} on my bank statement under {order} and do not know what it is for.",
    ),
    "cancel": (
        "Please cancel order {order}, I no longer need the {product}.",
        "I ordered the {product} by mistake, please stop {order}.",
        "Do not send the {product}, order {order}.",
        "It was meant to come on {other_date}; I have waited long enough, so drop order {order} for the {product}.",
        "I found the {product} cheaper elsewhere and want to withdraw order {order}.",
        "Take the {product} off my list, number {order}, before it is packed.",
        "I changed my mind about the {product} and order {order} has not been shipped yet.",
    ),
    "delivery": (
        "Order {order} with the {product} has not arrived, it was due {date}.",
        "Where is my {product}? Order {order}, promised for {date}.",
        "The {product} should have been here on {date}. The number is {order}.",
        "Tracking of {order} has not moved and the {product} was announced for {date}.",
        "The courier says that he left the {product} on {date}, but there is nothing here (order {order}).",
        "I stayed at home on {date} for the {product} and nobody rang. Order {order}.",
        "I paid {other_amount} for express, and {order}, the {product}, is still missing since {date}.",
    ),
    "refund": (
        "I sent the {product} back, order {order}, and wait for my {amount}.",
        "The {product} from order {order} is not what I expected, I want the {amount} back.",
        "Please return {amount} for order {order}, the {product} came in the wrong colour.",
        "Your shop received the {product} on {other_date}. When do I get {amount} for {order}?",
        "The {product} arrived broken and I do not want another one. {amount} please, order {order}.",
        "I would like my money back for {order}: {product}, {amount}.",
        "Half of the {product} in {order} was missing, so I sent it back and expect {amount}.",
    ),
    "technical": (
        "My {product}, bought on {date}, shows fault {code}.",
        "The {product} stops after a minute with {code}. I bought it on {date}.",
        "Since the update the {product} only blinks {code}; purchase date {date}.",
        "Fault {code} on the {product}. It is from {date}.",
        "The {product} that I got on {date} does not start, the display says {code}.",
        "I do not want my money back, I want the {product} of {date} to work without {code}.",
        "The {product} gets hot and reports {code}. The receipt says {date}.",
    ),
}

# Around the request in longer tickets. Decoys here are what makes copying more than finding the only number.
SURROUNDINGS = (
    "My earlier order {other_order} was no trouble at all.",
    "I already wrote on {other_date} and had no answer.",
    "{other_name} on the phone told me to write to you.",
    "By the way, the {other_product} I bought last year still works very well.",
    "I have been a customer for many years and never had to complain before.",
    "My neighbour {other_name} had the same thing happen in {other_month}.",
    "The whole matter has cost me two afternoons already.",
    "I paid {other_amount} for the {other_product} at the same time and that one is fine.",
    "You can reach me in the evening, during the day I work and cannot take calls.",
    "Please do not send me another automatic message, I have had three of them.",
    "The address has not changed, it is the second floor, and the bell carries the name of {other_name}.",
    "I looked through the questions on your page, but none of them is about my case.",
    "If it helps, the parcel before this one had the number {other_order} and came on {other_date}.",
    "I attach a photograph, although the light in the kitchen is not very good.",
    "We are moving house at the end of {other_month}, so it would be good to have it settled by then.",
    "My daughter wanted to use it on her birthday, and you can imagine how that went.",
)

OPENINGS = ("", "", "Hello,", "Hi there,", "Good morning,", "To whom it may concern,", "Dear support team,")
SIGNATURES = ("{name}", "Thanks, {name}", "Regards, {name}", "Best wishes, {name}", "My name is {name}.")

NAMES = (
    "Ana", "Omar", "Lucia", "Henrik", "Priya", "Tomas", "Wei", "Fatima", "Jonas", "Elif",
    "Marek", "Sofia", "Idris", "Greta", "Hugo", "Noor", "Pavel", "Ines", "Kofi", "Marta",
    "Ravi", "Helena", "Yusuf", "Clara", "Dmitri", "Leila", "Bruno", "Aiko", "Samuel", "Petra",
    "Mateo", "Ingrid", "Amara", "Felix", "Zofia", "Emil", "Nadia", "Oscar", "Tessa", "Viktor",
)  # fmt: skip
SURNAMES = (
    "Berg", "Costa", "Lindqvist", "Rao", "Novak", "Okafor", "Haddad",
    "Moreau", "Tanaka", "Weiss", "Silva", "Kaya", "Dvorak", "Mensah",
)  # fmt: skip
PRODUCTS = (
    "kettle", "desk lamp", "rice cooker", "blue backpack", "coffee grinder", "garden hose", "toaster", "wall clock",
    "electric drill", "yoga mat", "bookshelf", "bread maker", "wireless mouse", "floor fan", "camping stove",
    "office chair", "hair dryer", "vacuum cleaner", "picture frame", "baby monitor", "bicycle pump", "sewing machine",
    "water filter", "tool box", "night light", "record player", "heated blanket", "juicer", "paper shredder",
    "step ladder",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
