"""Inputs for people who have no data file at hand: written for this project, varied in subject and length.

`PROMPTS` (32) are for language models, `SENTENCES` (64) for classifiers and encoders. They make times comparable between runs;
they say nothing about a task's quality.
"""

from __future__ import annotations

_SHORT = (
    "Name three rivers in Africa.",
    "What does a thermostat do?",
    "Translate into Spanish: the library closes at six.",
    "Write a polite reminder about an unpaid invoice.",
    "Why is the sea salty?",
    "List five vegetables that can be eaten raw.",
    "Explain compound interest to a ten-year-old.",
    "Give me a one-line slogan for a bicycle repair shop.",
    "What is the difference between a crocodile and an alligator?",
    "Complete the sentence: the train was late, so we",
    "def reverse_words(text: str) -> str:",
    "Convert 75 degrees Fahrenheit to Celsius and show the steps.",
    "Is 91 a prime number? Answer yes or no, then say why.",
    "Suggest a name for a grey cat that likes to sleep in boxes.",
)

_MIDDLE = (
    (
        "I have two cans of chickpeas, an onion, some spinach, a lemon and half a jar of tomato sauce. I would like to cook "
        "dinner for three people in less than forty minutes, and one of them does not eat garlic. What could I make, and in "
        "which order should I do the steps so that everything is warm at the same time?"
    ),
    (
        "Rewrite the following message so that it is friendly but firm: You said the shelf would be here on Monday. It is "
        "Thursday. Nobody answers the phone. Either it comes tomorrow or I want my money back, and I am not paying for the "
        "delivery either."
    ),
    (
        "SELECT customer_id, SUM(amount) AS total FROM orders WHERE placed_at >= '2023-01-01' GROUP BY customer_id HAVING "
        "SUM(amount) > 500 ORDER BY total DESC LIMIT 20;\n\nExplain in plain words what this query returns, and what would "
        "change if HAVING were left out."
    ),
    (
        "Read the review and say whether the writer would buy the product again. Review: The kettle is quiet and boils "
        "quickly, and I like the colour. After two months the lid no longer closes, and the shop wants me to pay the "
        "postage. I have gone back to my old one."
    ),
    (
        "A gardener has 48 metres of fence and wants a rectangular bed along a straight wall, so that only three sides need "
        "a fence. Which length and width give the largest area? Work it out step by step and check the result with one "
        "other shape."
    ),
    (
        "Summarise in two sentences: The town council met on Tuesday to discuss the bridge in Mill Lane, which has been "
        "closed since the flood in February. Engineers said that the pillars are sound but that the roadway must be "
        "replaced. The work will take about five months and cost more than was set aside. Shopkeepers asked for a footbridge "
        "in the meantime, and the council promised an answer within two weeks."
    ),
    (
        "Here is an error from my program: IndexError: list index out of range, in line 14, `total += prices[i + 1]`, inside "
        "a loop `for i in range(len(prices))`. What is wrong, and what are two ways to put it right?"
    ),
    (
        "Extract the date, the amount and the name of the sender as JSON with the keys date, amount and sender. Text: Dear "
        "Ms Okafor, thank you for your payment of 184.50 euros, which reached us on 3 March. Your contract runs for another "
        "twelve months. Kind regards, Nordwind Energy, customer service."
    ),
    (
        "You are the guide of a small museum of clocks. A visitor asks why so many old clocks have a Roman four written as "
        "IIII and not as IV. Tell them what is known, what is only a story, and point them to one clock in the room where "
        "they can see it."
    ),
    (
        "Compare buying a used electric car with keeping a ten-year-old petrol car that still runs well, for somebody who "
        "drives about nine thousand kilometres a year, mostly in town, and cannot charge at home. Name the three questions "
        "that matter most and say which way each answer would tip the decision."
    ),
    (
        "Write a function in Python that takes a list of dictionaries with the keys name, start and end, where start and end "
        "are times such as 09:30, and returns the pairs of names whose times overlap. Do not use any library besides the "
        "standard one, and add a short test with three meetings."
    ),
    (
        "The lighthouse keeper had counted ships for thirty years, one pencil stroke for each. On the first night of autumn "
        "a ship came by that carried no lights at all, and she could not decide whether to count it. Continue the story for "
        "one paragraph, in the same calm voice."
    ),
)

_LONG = (
    (
        "Below are the minutes of a meeting. Turn them into a list of tasks, each with the person responsible and a date "
        "where one was named, and put whatever was left open at the end.\n\nThe meeting began at ten. Priya reported that "
        "the new booking page has been live for a week and that about one visitor in eight leaves it at the second step, "
        "where the telephone number is asked for. Tomas thinks the field should be optional; Priya agrees but wants to see "
        "first whether the hotel partners rely on it, and will ask them before the end of the month. The translation into "
        "Portuguese is finished except for the terms and conditions, which the lawyers have had since the fourth. Ines will "
        "call them tomorrow. The cost of the map service has doubled since the summer. Tomas presented two alternatives: one "
        "is cheaper but has no satellite pictures, the other costs nearly the same and is faster on phones. Nobody objected "
        "to the cheaper one, but the design group has not been asked, so the decision was put off until Jun is back from "
        "leave on the nineteenth. Under any other business, Ines noted that the backup of the image store failed twice last "
        "week and that nobody was told, because the alarm goes to a mailbox that was closed in spring. Tomas will redirect "
        "it today. The next meeting is on the twenty-second, in the small room."
    ),
    (
        "Answer the question using only the text, and quote the sentence that you relied on.\n\nText: Peat forms where "
        "plants die faster than they can rot. In a bog the ground is soaked for most of the year, and water that stands "
        "still holds little oxygen, so the bacteria and fungi that would break down dead moss work slowly or not at all. "
        "Layer settles on layer, and the weight of the upper ones presses the lower ones into a dense brown mass. The pace "
        "is slow: a metre of peat stands for something like a thousand years. Because carbon is laid down and not given "
        "back, bogs hold far more of it than their small share of the land would suggest. When a bog is drained, for "
        "farming or for fuel, air enters the upper layers and decay begins. The ground then sinks, at first by several "
        "centimetres a year, which in turn brings the surface closer to the water again, so that the ditches must be dug "
        "deeper. Fires in dried peat are hard to put out, since they creep below ground and may come up again after weeks, "
        "some distance away. Raising the water level stops the decay within a few seasons, although the mosses that built "
        "the bog may take decades to return, and the first years often smell of methane.\n\nQuestion: Why do farmers on "
        "drained bogs have to deepen their ditches again and again, and what stops the process?"
    ),
    (
        "Review this piece of code as a colleague would: say what it does, name the faults in order of how much harm they "
        "can do, and show a corrected version.\n\n"
        "import json, time, urllib.request\n\nCACHE = {}\n\ndef price(symbol, retries=3):\n    if symbol in CACHE:\n"
        "        return CACHE[symbol]\n    for attempt in range(retries):\n        try:\n"
        "            reply = urllib.request.urlopen('http://quotes.example/' + symbol)\n"
        "            data = json.loads(reply.read())\n            CACHE[symbol] = data['price']\n"
        "            return data['price']\n        except:\n            time.sleep(attempt)\n    return 0\n\n"
        "def portfolio(positions, currency='EUR', log=[]):\n    total = 0\n    for symbol, count in positions.items():\n"
        "        value = price(symbol) * count\n        if value > 0:\n            total = total + value\n"
        "            log.append((symbol, value))\n    print('Portfolio: ' + str(round(total, 2)) + currency)\n"
        "    return total, log\n\nThe function portfolio is called once a minute by a service that runs for weeks, and the "
        "people who read its output say that the total is sometimes far too low and that the memory of the service grows."
    ),
    (
        "Write the reply to the last e-mail in this exchange. Keep it under one hundred and twenty words, apologise once, "
        "and offer exactly two options.\n\nFrom: Marta Lindqvist. Hello, in May I ordered a made-to-measure blind for our "
        "kitchen, 142 by 180 centimetres, in the colour called oat. On the 2nd of June a parcel arrived with a blind that is "
        "124 centimetres wide. Could you tell me what to do?\n\nFrom: customer service. Dear Ms Lindqvist, thank you for "
        "writing. Please send us a photograph of the label on the parcel and of the blind with a tape measure beside it, so "
        "that we can find out where the mistake was made.\n\nFrom: Marta Lindqvist. Here are both photographs. On the label "
        "it says 142, the blind itself is 124, as you can see. Since then three weeks have gone by without an answer. We "
        "have guests from the 10th of July and the kitchen faces the street. I would rather not go through all of this "
        "again with a second blind that may be wrong as well.\n\nFrom: workshop, internal. Label was right, the figures "
        "were swapped at the saw. New blind can be cut on Monday and leave on Wednesday by express. If she prefers the money "
        "back we do not need the old one returned."
    ),
    (
        "Plan a weekend for a group of six who have never been to the town, from Friday evening to Sunday afternoon, and "
        "give a reason for each choice.\n\nWhat is known: Two of the six are over seventy and can walk for about half an "
        "hour at a time, with benches. One uses no stairs. One child is nine, knows everything about trains and is bored by "
        "churches. All of them eat fish, nobody eats pork, and the child eats plain noodles whatever is on the menu. They "
        "arrive at the main station at 17:40 on Friday and leave from there at 16:05 on Sunday. The forecast says rain on "
        "Saturday until early afternoon, then dry. The town has a tram museum that opens at eleven on Saturdays and is "
        "closed on Sundays, a market hall that is open on Saturday until three, a castle on a hill with a funicular whose "
        "upper station has nine steps, a river boat with a ramp that runs on the hour from ten to five and needs a "
        "reservation for more than four people, a botanical garden with a large glasshouse, and two restaurants by the "
        "water, one of which has no lift to its only toilet. The hotel lies beside the market hall, and its breakfast ends "
        "at half past nine. The budget for meals is forty euros a person and day. Say what must be booked in advance and by "
        "when, and what to do instead if the rain does not stop."
    ),
    (
        "Mark this short essay as a teacher would: two strong points, two weak ones, a mark from one to ten, and one "
        "sentence that the pupil could use to improve the ending.\n\nShould schools start later? Many pupils say that they "
        "are tired in the morning, and I am one of them. Scientists have found that teenagers fall asleep later than "
        "children and adults, because the hormone that makes us sleepy comes later in the evening at our age. So it is not "
        "laziness if we cannot get up. A school near my aunt moved the start from half past seven to half past eight, and "
        "she says the first lesson is much quieter now, because everybody is awake. On the other hand, parents often have "
        "to leave for work early, and somebody must look after the little ones. Also the buses would be full at the same "
        "time as everybody else's. Sports clubs would have to start later too, and in winter it would be dark. My brother "
        "thinks that we would only go to bed even later and nothing would change, but that is what people always say. In my "
        "opinion the advantages are bigger. Tired people learn nothing, so an hour in which nobody learns is a lost hour. "
        "That is why schools should start later, and also because breakfast is important."
    ),
)

PROMPTS: tuple[str, ...] = (*_SHORT, *_MIDDLE, *_LONG)

SENTENCES: tuple[str, ...] = (
    "Thank you!",
    "Where is my parcel?",
    "Cancel my order, please.",
    "Great service, will come again.",
    "The screen stays black.",
    "I forgot my password.",
    "Refund not received.",
    "Too loud and too expensive.",
    "How long does the battery last?",
    "The soup was cold when it came.",
    "Please change my delivery address.",
    "Our flight leaves at seven.",
    "It works exactly as described.",
    "Can I pay in two instalments?",
    "The left shoe is one size larger than the right one.",
    "Nobody has called me back since Tuesday.",
    "My card was charged twice for the same ticket.",
    "The museum is free on the first Sunday of the month.",
    "I would like to speak to somebody about my contract.",
    "The update has made the app slower on my old phone.",
    "Bees find their way home by the position of the sun.",
    "The bridge was closed after the river had risen overnight.",
    "She planted the tomatoes too early, and the frost took them.",
    "A square has four equal sides and four right angles.",
    "Shares of the shipping company fell by six per cent on Monday.",
    "The second half of the film is much better than the first.",
    "He learned to repair clocks from his grandfather, who was nearly blind.",
    "The instructions are only in Danish, and the drawings are too small to read.",
    "Which of the two plans includes calls to other countries?",
    "The old mill at the end of the valley now houses a bakery and a school of music.",
    "Water boils at a lower temperature on a high mountain than at the sea.",
    "We waited for an hour at the counter while three members of staff were talking to each other.",
    "The committee will publish its findings before the end of the year, according to a spokesman.",
    "I bought this lamp for my daughter's room, and she has used it every evening since.",
    "If the red light blinks three times, hold the button until the fan stops.",
    "The recipe asks for two eggs, but one and a little milk will do just as well.",
    "After the storm the ferry did not run for two days, and the shops on the island had no bread.",
    "Your letter of 12 May reached us only last week, because it had been sent to our former address.",
    "The team lost the final in the last minute, although it had been the better side from the start.",
    "The fabric feels cheap, the buttons came off in the first wash, and the colour is nothing like the picture.",
    "Trains between the two cities will be replaced by buses on weekends until the tunnel has been repaired.",
    "I have tried to log in from the phone and from the computer, and both tell me that my account does not exist.",
    "The author describes the village of her childhood so exactly that one could draw a map of it.",
    "Glass is made from sand, soda and lime, which are melted together at about fifteen hundred degrees.",
    "The doctor advised him to walk for half an hour each day and to leave the lift to other people.",
    "We are looking for a flat with three rooms near the university, on the ground floor or with a lift, from October.",
    "The parcel was left in front of the door in the rain, although I had asked for it to be given to the neighbour.",
    "A new law obliges landlords to tell their tenants each month how much energy they have used and what it has cost.",
    "The hotel is clean and the staff is kind, but the walls are so thin that we knew our neighbours' plans by heart.",
    "Scientists have found traces of a lake under the desert that must have dried up about seven thousand years ago.",
    (
        "Two weeks ago I sent back the coat that you delivered in the wrong size, and so far I have had neither a coat in "
        "the right size nor my money."
    ),
    (
        "The orchestra played the slow movement more quickly than is usual, and what sounded strange at first seemed right "
        "by the end of the evening."
    ),
    (
        "Although the council had promised cycle paths on all main roads, only one of the nine has been finished, and that "
        "one ends in front of a wall."
    ),
    (
        "Please send me the invoice again with the address of the company, not my private one, since our accountant cannot "
        "use it as it is."
    ),
    (
        "When the snow melts early, the meadows flower before the insects that pollinate them have woken up, and fewer "
        "seeds are set in that year."
    ),
    (
        "The vacuum cleaner picks up hair very well and is easy to empty, but it is heavy, and the cable is too short for "
        "our stairs, so I carry it around more than I use it."
    ),
    (
        "Passengers who have missed their connection because of the strike may use any other train on the same day without "
        "asking, and will get back the difference in price if that train is cheaper."
    ),
    (
        "My subscription was to end in March, and I have your confirmation of that; all the same, the fee for April was "
        "taken from my account this morning, and the telephone line tells me to write an e-mail."
    ),
    (
        "For the dough, mix flour and salt, rub in the butter until it looks like breadcrumbs, add just enough cold water "
        "to bind it, and leave it in a cool place for at least half an hour before you roll it out."
    ),
    (
        "The company wants to move its warehouse out of town by the end of next year; the two hundred people who work there "
        "were told on Friday, and most of them say that they could not get to the new place without a car."
    ),
    (
        "I have been a customer for eleven years and have never complained, but this time three things went wrong at once: "
        "the fitter came a day late, he had brought the wrong door, and he left the old one standing in the hall, where it "
        "still is."
    ),
    (
        "Nobody knows who built the stone circle on the hill or what it was for, but on the longest day of the year the sun "
        "rises exactly between the two tallest stones, and people from the villages around still go up there to see it, as "
        "their grandparents did."
    ),
    (
        "The course is meant for people who have never written a program: it begins with small games, takes its time over "
        "mistakes and how to find them, and ends with a project of one's own, for which four weeks and the help of a tutor "
        "are set aside; no certificate is given."
    ),
    (
        "We ordered the large sofa in dark green after sitting on it in the shop for half an afternoon, waited fourteen "
        "weeks instead of six, and then received two of the small ones in blue, which were carried up to the fourth floor "
        "before anybody looked at the paper, and which your driver refused to take down again."
    ),
)
